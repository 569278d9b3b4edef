import type { Cluster, Redis } from "ioredis";
import type { QueueProblem } from "./backend.ts";
import { ioredis } from "./packages.ts";
import { unlessLate } from "../../runtime/lifecycle/abort.ts";

const VERSION_MIN = 7;
const ANSWER_DEADLINE_MS = 2_000;

/** The problems of the Redis behind the queue. Reads INFO only: hosted servers often forbid CONFIG. */
export async function checkRedis(client: Redis | Cluster): Promise<readonly QueueProblem[]> {
  await unlessLate(waitUntilReady(client), ANSWER_DEADLINE_MS);
  const isCluster = client instanceof ioredis.Cluster;
  const nodes = isCluster ? client.nodes("master") : [client];
  const answers = await Promise.all(nodes.map((node) => readAnswer(node)));
  const problems = answers.flatMap((answer) =>
    answer === undefined ? [NO_ANSWER] : findProblems(answer, isCluster),
  );
  if (nodes.length === 0) return [NO_ANSWER];
  return problems.filter(({ problem }, at) => problems.findIndex((p) => p.problem === problem) === at);
}

const NO_ANSWER: QueueProblem = {
  problem: "Redis does not answer; the overdue check applies events, some seconds later.",
  fix: "Start Redis; see REDIS_URL.",
};

function waitUntilReady(client: Redis | Cluster): Promise<void> {
  if (client.status === "ready") return Promise.resolve();
  return new Promise((resolve) => client.once("ready", () => resolve()));
}

async function readAnswer(node: Redis): Promise<ReadonlyMap<string, string> | undefined> {
  const answer = await unlessLate(
    node.info().catch(() => "late" as const),
    ANSWER_DEADLINE_MS,
  );
  if (answer === "late") return undefined;
  const pairs = answer.split(/\r?\n/).flatMap((line): [string, string][] => {
    const colon = line.indexOf(":");
    return colon === -1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
  });
  return new Map(pairs);
}

function findProblems(answer: ReadonlyMap<string, string>, isCluster: boolean): QueueProblem[] {
  const problems: QueueProblem[] = [];
  const policy = answer.get("maxmemory_policy");
  if (policy !== undefined && policy !== "noeviction") {
    problems.push({
      problem: `Redis may throw away jobs: its maxmemory-policy is ${policy}.`,
      fix: "Set maxmemory-policy to noeviction.",
    });
  }
  const version = answer.get("redis_version") ?? "unknown";
  // A fork that is compatible with Redis 7 reports that here, and its own version elsewhere.
  if (!(Number.parseInt(version, 10) >= VERSION_MIN)) {
    problems.push({
      problem: `Redis has version ${version}, which is too old.`,
      fix: "Use Redis 7 or later, or Valkey.",
    });
  }
  if (!isCluster && answer.get("redis_mode") === "cluster") {
    problems.push({
      problem: "Redis is a node of a cluster, but REDIS_URL names only one.",
      fix: "List several of its nodes, comma separated; listing the same one twice is enough.",
    });
  }
  return problems;
}
