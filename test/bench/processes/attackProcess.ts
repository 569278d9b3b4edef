import { constants, setPriority } from "node:os";
import { attackEdge } from "../../support/http/edgeAttack.ts";
import type { EdgeAttack } from "../../support/http/edgeAttack.ts";

/**
 * Attacks a port as requested, and answers with the result. Attackers have machines of their own: here they get what
 * processor time the others leave, and the number of requests shows whether that was enough.
 */
setPriority(constants.priority.PRIORITY_LOW);
process.on("message", (order: EdgeAttack) => void attackEdge(order).then((end) => process.send?.(end)));
process.send?.("ready");
