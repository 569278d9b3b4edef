#!/usr/bin/env node
// Nothing is imported before this: an older Node fails at the first import that it does not know.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > 20 || (major === 20 && minor >= 19)) {
  await import("./start.ts");
} else {
  process.stderr.write(
    `order-mirror: Node ${process.versions.node} is too old.\n  fix: Install Node 20.19 or newer, better the current LTS.\n`,
  );
  process.exitCode = 2;
}

export {};
