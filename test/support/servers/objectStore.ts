import { createHash, createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

/** An S3-compatible store in memory that verifies signatures by its own computation (AWS Signature Version 4). */
export interface ObjectStore {
  readonly url: string;
  readonly objects: ReadonlyMap<string, Buffer>;
  /** How many PUTs were accepted. */
  readonly puts: () => number;
  /** The next request ends without an answer after some bytes. */
  readonly breakOff: () => void;
  readonly close: () => Promise<void>;
}

const sha256 = (bytes: Buffer | string) => createHash("sha256").update(bytes).digest("hex");
const sign = (key: Buffer | string, text: string) => createHmac("sha256", key).update(text).digest();

/** Starts a store that knows one access key. */
export async function startObjectStore(key: {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
}): Promise<ObjectStore> {
  const objects = new Map<string, Buffer>();
  const state = { puts: 0, breaksOff: false };
  const server = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request as AsyncIterable<Buffer>) {
        chunks.push(chunk);
        if (!state.breaksOff) continue;
        state.breaksOff = false;
        request.socket.destroy();
        return;
      }
      const body = Buffer.concat(chunks);
      const problem = findProblem(request, body, key);
      if (problem !== undefined) {
        const text = `<?xml version="1.0"?><Error><Code>${problem}</Code><StringToSign>secret text</StringToSign></Error>`;
        response.writeHead(403, { "content-type": "application/xml" }).end(text);
        return;
      }
      state.puts += 1;
      objects.set(String(request.url), body);
      response.writeHead(200, { etag: `"${sha256(body)}"` }).end();
    })().catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    objects,
    puts: () => state.puts,
    breakOff: () => (state.breaksOff = true),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The code with which a store refuses the request; undefined if it is signed rightly. */
function findProblem(
  request: IncomingMessage,
  body: Buffer,
  key: { accessKeyId: string; secretAccessKey: string; region: string },
): string | undefined {
  const { headers, method = "", url = "" } = request;
  if (method !== "PUT") return "MethodNotAllowed";
  const [, credential = "", names = "", signature = ""] =
    /^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? "",
    ) ?? [];
  const [id = "", date = "", region = "", service = "", end = ""] = credential.split("/");
  const stamp = String(headers["x-amz-date"]);
  if (id !== key.accessKeyId) return "InvalidAccessKeyId";
  if (region !== key.region || service !== "s3" || end !== "aws4_request")
    return "AuthorizationHeaderMalformed";
  if (!stamp.startsWith(date) || Math.abs(Date.now() - parseStamp(stamp)) > 900_000)
    return "RequestTimeTooSkewed";
  if (headers["x-amz-content-sha256"] !== sha256(body)) return "XAmzContentSHA256Mismatch";
  const signed = names.split(";");
  if (!["host", "x-amz-content-sha256", "x-amz-date"].every((name) => signed.includes(name)))
    return "AccessDenied";
  const [path = "", query = ""] = url.split("?");
  const lines = signed.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/ +/g, " ")}\n`);
  const canonical = [method, path, query, lines.join(""), names, sha256(body)].join("\n");
  const text = ["AWS4-HMAC-SHA256", stamp, `${date}/${region}/s3/aws4_request`, sha256(canonical)].join("\n");
  const derived = [region, "s3", "aws4_request"].reduce(
    (last, part) => sign(last, part),
    sign(`AWS4${key.secretAccessKey}`, date),
  );
  return sign(derived, text).toString("hex") === signature ? undefined : "SignatureDoesNotMatch";
}

function parseStamp(stamp: string): number {
  return Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
}
