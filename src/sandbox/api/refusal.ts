import { OrderMirrorError } from "../../domain/errors.ts";

/**
 * A request that the stand-in refuses, as the provider would; never a fault that was injected. It is not the refusal of
 * the mirror's read API, so that a wrong status or code is not the same on both sides of the contract suite.
 */
export class Refusal extends OrderMirrorError {
  override readonly name = "Refusal";
  override readonly retry = "never";
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, { code, message, headers }: Pick<Refusal, "code" | "message" | "headers">) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** Makes a refusal listed in the spec ("Errors"), or assumed where the spec shows none. */
export function refused(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Refusal {
  return new Refusal(status, { code, message, headers });
}

/** Refuses a parameter or a field of a body. Assumed: 422 and the code. */
export const refuseField = (message: string) => refused(422, "invalid_request", message);

/** Answers every cause alike: an order of another mode or organization must look nonexistent (spec, "Endpoints"). */
export const refuseOrder = () =>
  refused(404, "order_not_found", "No order has this reference or externalOrderId.");

/** Refuses a branch that the organization does not have. Assumed: 422 and the code. */
export const refuseBranch = () => refused(422, "branch_not_found", "No branch has this reference or id.");
