import type { Browser } from "playwright-core";

/** The difference of one colour channel that the eye does not see, of 255: smoothed edges of letters vary. */
const CHANNEL_TOLERANCE = 48;

/** The share of pixels that differ visibly; 1 for pictures of different sizes. The browser reads the files. */
export async function comparePictures(browser: Browser, one: Buffer, other: Buffer): Promise<number> {
  const page = await browser.newPage();
  try {
    const files = [one, other].map((file) => file.toString("base64"));
    return await page.evaluate<number>(`(async () => {
      const [one, other] = await Promise.all(${JSON.stringify(files)}.map(async (file) => {
        const bytes = Uint8Array.from(atob(file), (character) => character.charCodeAt(0));
        const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
        const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
        canvas.drawImage(bitmap, 0, 0);
        return canvas.getImageData(0, 0, bitmap.width, bitmap.height);
      }));
      if (one.width !== other.width || one.height !== other.height) return 1;
      let different = 0;
      for (let pixel = 0; pixel < one.data.length; pixel += 4) {
        const isVisible = [0, 1, 2].some(
          (channel) => Math.abs(one.data[pixel + channel] - other.data[pixel + channel]) > ${CHANNEL_TOLERANCE},
        );
        if (isVisible) different += 1;
      }
      return different / (one.width * one.height);
    })()`);
  } finally {
    await page.close();
  }
}
