/** All bytes of a body; undefined if it has more than `bytesMax`, whose rest is not read. Rejects with the body's errors. */
export async function readBytes(
  body: AsyncIterable<Uint8Array> | null,
  bytesMax: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.byteLength;
    if (length > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
