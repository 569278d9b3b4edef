/** The word for so many: `noun` for one, otherwise `plural`. */
export function wordFor(count: number, noun: string, plural = `${noun}s`): string {
  return count === 1 ? noun : plural;
}
