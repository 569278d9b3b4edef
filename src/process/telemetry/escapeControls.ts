/**
 * Characters that control a terminal or are invisible: control characters, those that change the text direction, other
 * separators of lines, and marks without a width, except the two that letters of some languages need. An order's text
 * could otherwise clear the screen, rename the window, imitate another line, or look like another reference.
 */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu;

/** Writes control characters as `\u001b`, line breaks too unless `lines` keeps them. JSON stays valid. */
export function escapeControls(text: string, { lines = false } = {}): string {
  return text.replace(CONTROLS, (character) =>
    lines && (character === "\n" || character === "\t")
      ? character
      : character
          .split("")
          .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
          .join(""),
  );
}
