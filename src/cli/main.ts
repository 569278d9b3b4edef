#!/usr/bin/env node
// Import nothing before this check: an older Node fails on the first import it does not support.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > 20 || (major === 20 && minor >= 19)) {
  await import("./start.ts");
} else {
  process.stderr.write(
    `order-mirror: Node ${process.versions.node} is too old.\n  fix: Install Node 20.19 or newer, preferably the current LTS.\n`,
  );
  process.exitCode = 2;
}

export {};
