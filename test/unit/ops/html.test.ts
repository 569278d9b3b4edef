import { expect, it } from "vitest";
import { html } from "../../../src/html/html.ts";

it("escapes text in content and attributes, and keeps markup", () => {
  const text = `<b a="1" b='2'>&</b>`;
  const escaped = "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;&lt;/b&gt;";
  expect(html`<p title="${text}">${text} ${1}${html`<i>${text}</i>`}</p>`.markup).toBe(
    `<p title="${escaped}">${escaped} 1<i>${escaped}</i></p>`,
  );
});

it("writes a list of pieces in sequence, and nothing for null", () => {
  expect(html`<b>${[html`<i>a</i>`, html`<i>b</i>`]}${[]}${null}</b>`.markup).toBe("<b><i>a</i><i>b</i></b>");
});
