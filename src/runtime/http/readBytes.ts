/**
 * The bytes of a body, none of null, read in chunks; undefined, and no further read, when it has more than `bytesMax`. Rejects with the
 * stream's errors.
 */
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
