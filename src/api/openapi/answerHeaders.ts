// The headers of answers: described once, and named by the answers that have them.

const time = { type: "string", format: "date-time" };
const text = { type: "string" };
const whole = { type: "integer", minimum: 0 };

/** The headers that the document describes, as its components. */
export const ANSWER_HEADERS = {
  "X-Request-Id": {
    schema: text,
    description: "Names this request in the mirror's log, as request_id does.",
  },
  "X-Safe-Through": {
    schema: time,
    description:
      "The answer has every change with an earlier updatedAt, except for the orders in X-Safe-Through-Exceptions. Absent while that is unknown.",
  },
  "X-Safe-Through-Exceptions": {
    schema: whole,
    description: "Orders that were seen but could not be read or confirmed, counted up to 1,000.",
  },
  "X-Waited": {
    schema: { type: "string", enum: ["newer", "timeout"] },
    description: "With updatedAfter: whether a newer state came, or the time was over.",
  },
  "X-Branches-As-Of": { schema: time, description: "When the provider listed these branches." },
  "X-Mirrored": {
    schema: { type: "string", enum: ["later"] },
    description: "The provider has done it, and polling will bring the order into the mirror.",
  },
  ETag: { schema: text, description: "For If-None-Match. Weak, because it ignores request_id." },
  Link: { schema: text, description: '`<?…>; rel="next"`: the query of the next page, by cursor.' },
  "Content-Disposition": { schema: text, description: "A file name with the source and the day." },
  "Retry-After": { schema: whole, description: "Seconds after which to send the request again." },
  "WWW-Authenticate": { schema: text, description: "`Bearer`." },
  Allow: { schema: text, description: "The methods of the address." },
  RateLimit: { schema: text, description: "The provider's, unchanged: what is left of its limits." },
  "RateLimit-Policy": { schema: text, description: "The provider's, unchanged: its limits." },
  "Service-Subscription-State": { schema: text, description: "The provider's, unchanged." },
} as const;

export type AnswerHeader = keyof typeof ANSWER_HEADERS;

/** Headers that come with a status, whatever was asked. */
const BY_STATUS: Readonly<Record<string, readonly AnswerHeader[]>> = {
  304: ["ETag"],
  401: ["WWW-Authenticate"],
  405: ["Allow"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

/** Refers to the headers of one answer of an operation: its own, those of its status, and X-Request-Id. */
export function describeHeaders(status: string, named: readonly AnswerHeader[] = []) {
  const names: AnswerHeader[] = ["X-Request-Id", ...named, ...(BY_STATUS[status] ?? [])];
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
