import { readFile, rename, writeFile } from "node:fs/promises";

/** Where a reader of the feed keeps its position. */
export interface CursorStore {
  /** The last saved position; undefined if there is none. */
  load(): Promise<string | undefined>;
  save(position: string): Promise<void>;
}

/** Keeps the position in a file, which is replaced as a whole. Its folder must exist. */
export function fileStore(path: string): CursorStore {
  return {
    async load() {
      try {
        const text = (await readFile(path, "utf8")).trim();
        return text === "" ? undefined : text;
      } catch (error) {
        if ((error as { code?: unknown }).code === "ENOENT") return undefined;
        throw error;
      }
    },
    async save(position) {
      const draft = `${path}.new`;
      await writeFile(draft, `${position}\n`);
      await rename(draft, path);
    },
  };
}
