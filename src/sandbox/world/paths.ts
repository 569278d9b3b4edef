/**
 * The decoded `:name` segments of `path` if it matches `pattern`; undefined otherwise, and if such a segment is empty
 * or cannot be decoded.
 */
export function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const part = given[index] ?? "";
    if (segment.startsWith(":")) {
      const decoded = decode(part);
      if (decoded === undefined || decoded === "") return undefined;
      params[segment.slice(1)] = decoded;
    } else if (segment !== part) return undefined;
  }
  return params;
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
