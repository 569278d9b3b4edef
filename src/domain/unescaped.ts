const decoder = new TextDecoder("utf-8");
/** Escapes of JSON, percent encoding, and character references of HTML. */
const ESCAPED = /\\u([0-9a-f]{4})|\\(.)|((?:%[0-9a-f]{2})+)|&#(x[0-9a-f]{1,5}|\d{1,6});/gis;
const CONTROLS: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
/** JSON within JSON is escaped twice, and so on; a percent sign can be escaped without end. */
const ESCAPED_TIMES_MAX = 8;
const CODE_POINT_MAX = 0x10_ff_ff;

/** The text as it is, without its escapes, without the escapes that then remain, and so on: the last has none. */
export function listUnescaped(text: string): string[] {
  const readings = [text];
  for (let times = 0; times < ESCAPED_TIMES_MAX; times += 1) {
    const next = unescaped(readings.at(-1) ?? "");
    if (next === readings.at(-1)) break;
    readings.push(next);
  }
  return readings;
}

/** The text without escapes of JSON, of addresses and of HTML: as it is meant, whatever it is written for. */
export function unescaped(text: string): string {
  return text.replaceAll(
    ESCAPED,
    (escape: string, unit?: string, sign?: string, percents?: string, point?: string) => {
      if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16));
      if (sign !== undefined) return CONTROLS[sign] ?? sign;
      if (percents !== undefined) return decoder.decode(Buffer.from(percents.replaceAll("%", ""), "hex"));
      const code = Number(point?.replace(/^x/i, "0x"));
      return code <= CODE_POINT_MAX ? String.fromCodePoint(code) : escape;
    },
  );
}
