import { attackEdge } from "../../support/http/edgeAttack.ts";
import type { EdgeAttack } from "../../support/http/edgeAttack.ts";

/** Attacks a port as requested, and answers with the result. */
process.on("message", (order: EdgeAttack) => void attackEdge(order).then((end) => process.send?.(end)));
process.send?.("ready");
