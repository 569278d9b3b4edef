import { createRequire } from "node:module";
import type * as BullMq from "bullmq";
import type * as IoRedis from "ioredis";

const require = createRequire(import.meta.url);

// Both are CommonJS. An `import` would first search all of their files for the names that they export, which takes
// longer than to load them.
export const bullmq = require("bullmq") as typeof BullMq;
export const ioredis = require("ioredis") as typeof IoRedis;
