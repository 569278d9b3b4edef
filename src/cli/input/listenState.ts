import { randomBytes } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { z } from "zod";
import type { CursorStore } from "../../client/mirrorClient.ts";
import { tryParseJson } from "../../domain/parseJson.ts";
import { ConfigurationError } from "../../domain/errors.ts";

const SECRET_BYTES = 24;
const stateSchema = z.object({ secret: z.string(), position: z.string().optional() });
type State = z.infer<typeof stateSchema>;

/** What `listen` keeps between two runs in a file that only its owner may read. */
export interface ListenState {
  /** Made at the first run. */
  readonly secret: string;
  readonly store: CursorStore;
}

/** Opens the file, or creates it. Throws ConfigurationError for a file with anything else. */
export async function openListenState(file: string): Promise<ListenState> {
  const read = await readState(file);
  const secret = read?.secret ?? `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
  if (read === undefined) await writeState(file, { secret });
  return {
    secret,
    store: {
      load: () => Promise.resolve(read?.position),
      save: (position) => writeState(file, { secret, position }),
    },
  };
}

async function readState(file: string): Promise<State | undefined> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const state = stateSchema.safeParse(tryParseJson(text));
  if (state.success) return state.data;
  throw new ConfigurationError(`${file} is not a file of this command.`, {
    fix: "Name another one with --state, or delete it.",
  });
}

async function writeState(file: string, state: State): Promise<void> {
  const draft = `${file}.new`;
  await writeFile(draft, `${JSON.stringify(state)}\n`, { mode: 0o600 });
  await rename(draft, file);
}
