/** One server-sent event, or the id that came without one. */
export interface StreamedEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string | undefined;
  readonly comment: string | undefined;
  readonly retry: string | undefined;
}

/** Reads server-sent events as they arrive, according to the HTML standard: blocks of lines, data lines joined. */
export async function* readEventStream(response: Response): AsyncGenerator<StreamedEvent> {
  if (response.body === null) throw new TypeError("the response has no body");
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) yield parseBlock(block);
  }
}

function parseBlock(block: string): StreamedEvent {
  const values = (name: string) =>
    block
      .split("\n")
      .flatMap((line) =>
        line.startsWith(`${name}:`) ? [line.slice(name.length + 1).replace(/^ /, "")] : [],
      );
  const data = values("data");
  return {
    id: values("id").at(-1),
    event: values("event").at(-1),
    data: data.length === 0 ? undefined : data.join("\n"),
    comment: values("").at(-1),
    retry: values("retry").at(-1),
  };
}
