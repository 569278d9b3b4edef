// What `npm start` needs of a build, in seconds: JavaScript without types, unchecked; nothing where nothing has changed.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

// In a way that older Nodes know, too: what says that they are too old is the program itself.
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
