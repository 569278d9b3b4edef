import { ConfigurationError } from "../../domain/errors.ts";

const ENTER = new Set(["\r", "\n"]);
const END_OF_INPUT = "\u0004";
const INTERRUPT = "\u0003";
const ERASE = new Set(["\u007f", "\b"]);

/** Asks for a secret on the terminal without showing it. Throws ConfigurationError if the user cancels. */
export function promptSecret(question: string): Promise<string> {
  const { stdin } = process;
  // Switch to raw mode before asking: otherwise the terminal echoes whatever is typed early.
  stdin.setRawMode(true).setEncoding("utf8").resume();
  process.stderr.write(question);
  return new Promise((resolve, reject) => {
    let typed = "";
    const finish = () => {
      stdin.off("data", read);
      stdin.setRawMode(false).pause();
      process.stderr.write("\n");
    };
    const read = (text: string) => {
      for (const character of text) {
        if (ENTER.has(character)) {
          finish();
          resolve(typed);
          return;
        }
        if (character === INTERRUPT || character === END_OF_INPUT) {
          finish();
          reject(new ConfigurationError("No secret was given."));
          return;
        }
        typed = ERASE.has(character) ? typed.slice(0, -1) : typed + character;
      }
    };
    stdin.on("data", read);
  });
}
