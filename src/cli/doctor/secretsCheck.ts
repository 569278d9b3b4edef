import type { Config } from "../../runtime/config/config.ts";
import { ENV_FILE, listReadableSecrets } from "../../runtime/config/environment.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";
import { ok, warning } from "./check.ts";
import type { Check, Remark } from "./check.ts";
import { shellWord } from "../../domain/shellWord.ts";

/** A secret with fewer different characters is a pattern, whatever its length. */
const DIFFERENT_MIN = 6;
const PASSWORD_LENGTH_ADVISED = 16;

/** Checks whether passwords and tokens can be guessed, and whether other accounts can read the files with secrets. */
export const secretsCheck: Check = {
  name: "secrets",
  needs: "database",
  run({ config }) {
    const files = listReadableSecrets(ENVIRONMENT, ENV_FILE).map((file) =>
      warning(
        `Every account on this machine can read ${file}, which holds secrets.`,
        `Run chmod 600 ${shellWord(file)}.`,
      ),
    );
    const remarks = [...listWeak(config), ...files];
    return Promise.resolve(
      remarks.length > 0 ? remarks : [ok("No password or token is too short or a simple pattern.")],
    );
  },
};

function listWeak({ opsPassword, opsViewerPassword, metricsToken, apiTokens }: Config): Remark[] {
  const passwords = [
    { name: "OPS_PASSWORD", secret: opsPassword ?? "" },
    { name: "OPS_VIEWER_PASSWORD", secret: opsViewerPassword ?? "" },
  ];
  const tokens = [
    { name: "METRICS_TOKEN", secret: metricsToken ?? "" },
    ...apiTokens.map(({ token }, place) => ({ name: `Entry ${place + 1} of API_TOKENS`, secret: token })),
  ];
  const isSet = ({ secret }: { secret: string }) => secret !== "";
  const patterns = [...passwords, ...tokens]
    .filter(isSet)
    .filter(({ secret }) => new Set(secret).size < DIFFERENT_MIN);
  const short = passwords.filter(isSet).filter(({ secret }) => secret.length < PASSWORD_LENGTH_ADVISED);
  return [
    ...patterns.map(({ name }) =>
      warning(`${name} repeats only a few characters.`, "Create a new one with: openssl rand -hex 24"),
    ),
    ...short.map(({ name }) =>
      warning(
        `${name} has fewer than ${PASSWORD_LENGTH_ADVISED} characters.`,
        "Create a longer one with: openssl rand -hex 12",
      ),
    ),
  ];
}
