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

/** A field of date and time has a stop for each of its parts. */
const PARTS_OF_A_TIME = 7;

/**
 * Tabs through the page from its beginning. Returns what a person with a keyboard would miss: stops that the eye does
 * not find (no outline, or beyond the side of the window), and controls that no Tab reaches.
 */
export async function keyboardFaults(page: Page): Promise<string[]> {
  const expected = await page.evaluate<number>(`(() => {
    // What is replaced meanwhile would be counted twice.
    document.getElementById("pause")?.click();
    document.activeElement?.blur();
    scrollTo(0, 0);
    globalThis.tour = { stops: new Set(), faults: new Set() };
    document.addEventListener("focusin", ({ target: stop }) => {
      const { outlineStyle, outlineWidth } = getComputedStyle(stop);
      const { left, right } = stop.getBoundingClientRect();
      const isSeen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && right > 0 && left < innerWidth;
      globalThis.tour.stops.add(stop);
      // The browser marks the part of a time instead of the whole field.
      if (!isSeen && stop.type !== "datetime-local") globalThis.tour.faults.add(stop.outerHTML.slice(0, 100));
    });
    return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
      // Links of a chart stand in its table, too.
      .filter((stop) => stop.checkVisibility() && !stop.disabled && stop.type !== "hidden" && stop.tabIndex >= 0).length;
  })()`);
  const parts = await page.locator("input[type=datetime-local]").count();
  for (let presses = 0; presses < expected + parts * PARTS_OF_A_TIME; presses += 1) {
    // Held down: the focus moves with every repetition, and half as many messages go to the browser.
    await page.keyboard.down("Tab");
  }
  await page.keyboard.up("Tab");
  const { stops, faults } = await page.evaluate<{ stops: number; faults: string[] }>(
    "({ stops: globalThis.tour.stops.size, faults: [...globalThis.tour.faults] })",
  );
  return stops < expected ? [...faults, `${expected - stops} controls are not reached`] : faults;
}

/** How many bytes of the page and everything that it loads are sent, and the time until it was there. */
export function weigh(page: Page): Promise<{ bytes: number; ms: number }> {
  return page.evaluate(`(() => {
    const [own] = performance.getEntriesByType("navigation");
    const all = [own, ...performance.getEntriesByType("resource")];
    return {
      bytes: all.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
      ms: own.responseEnd - own.requestStart,
    };
  })()`);
}

/** Visible controls that only a script could make work: of a page without JavaScript there should be none. */
export function deadControls(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll("button, input, select")]
    .filter((control) => control.checkVisibility() && control.type !== "hidden" && !control.form && !control.disabled)
    .map((control) => control.outerHTML.slice(0, 100))`);
}
