/** Characters that mean only themselves to every shell. */
const PLAIN = /^[A-Za-z0-9_./:+-]+$/;

/** `text` as one word of a command that a person pastes into a POSIX shell. */
export function shellWord(text: string): string {
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * A command of ours to paste, about an order: `--` keeps a reference that starts with a hyphen from being an option.
 */
export function commandOn(command: string, reference: string): string {
  return `order-mirror ${command} ${reference.startsWith("-") ? "-- " : ""}${shellWord(reference)}`;
}
