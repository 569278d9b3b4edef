// The part of a build that `npm start` needs, in seconds: JavaScript without types, unchecked. Does nothing when nothing
// has changed.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

// Written for older versions of Node, too: the program itself then reports that they are too old.
const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc");
const args = [tsc, "-p", "tsconfig.build.json", "--noCheck", "--declaration", "false", "--pretty", "false"];
const { status, stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
const [, reason] = /error TS5033: Could not write file '[^']*': (.*)/.exec(stdout) ?? [];
if (status !== 0) {
  process.stderr.write(
    reason === undefined
      ? stdout || "The build did not run.\n  fix: Run npm ci, with the packages for development.\n"
      : `The program is not built, and the build cannot be written: ${reason}\n  fix: Run npm run build where this folder can be written to.\n`,
  );
  process.exitCode = 2;
}
