import { request, type IncomingHttpHeaders } from "node:http";

export interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A request with exactly these headers. Not fetch, which chooses Host, Origin and Sec-Fetch-Site by itself. */
export function ask(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method = "GET", headers = {}, body } = options;
    request(url, { method, headers }, (response) => {
      let text = "";
      response
        .setEncoding("utf8")
        .on("data", (chunk: string) => (text += chunk))
        .on("end", () => resolve({ status: response.statusCode, headers: response.headers, body: text }));
    })
      .on("error", reject)
      .end(body);
  });
}
