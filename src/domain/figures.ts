/** The sum of two sets of the same figures, one by one; `times` -1 is the difference. */
export function addFigures<Figures extends { readonly [Name in keyof Figures]: number }>(
  left: Figures,
  right: Figures,
  times = 1,
): Figures {
  const entries = Object.entries<number>(left);
  const more = right as Readonly<Record<string, number>>;
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value + times * (more[name] ?? 0)]),
  ) as Figures;
}
