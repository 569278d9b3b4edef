import type { Page } from "playwright-core";

/**
 * Words that are broken across lines, found by the boxes in which they are drawn. Names of unknown length and words
 * longer than the window may break, and so may text that is copied rather than read.
 */
export function brokenWords(page: Page): Promise<string[]> {
  return page.evaluate(`(() => {
    const broken = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (!parent.checkVisibility() || parent.closest("script, option, pre, .hidden-text")) continue;
      for (const { 0: word, index } of node.data.matchAll(/[\\p{L}\\p{N}_.:]+/gu)) {
        if (word.length > 30) continue;
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
        if (lines.size > 1) broken.push(word);
      }
    }
    return broken;
  })()`);
}

/** Controls smaller than 24 by 24 px (WCAG 2.2, 2.5.8); links within a sentence are exempt. */
export function smallControls(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll("a, button, input, select, textarea, summary")]
    .filter((control) => control.checkVisibility() && control.type !== "hidden" && !control.matches(".skip"))
    .filter((control) => !(control.matches("a") && getComputedStyle(control).display === "inline"))
    .filter((control) => {
      const target = (control.type === "checkbox" && control.closest("label")) || control;
      const { width, height } = target.getBoundingClientRect();
      return width < 23.5 || height < 23.5;
    })
    .map((control) => control.outerHTML.slice(0, 100))`);
}
