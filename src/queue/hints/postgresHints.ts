import type pg from "pg";
import { HINT_LISTENER, listenForHints, notifyHint, readListenerPlace } from "./hints.sql.ts";
import type { ListenerPlace } from "./hints.sql.ts";
import { startListener } from "../../database/listener.ts";
import type { Listener, ListenerOptions } from "../../database/listener.ts";
import { readHint, writeHint } from "./hints.ts";
import type { Hint, Hints } from "./hints.ts";

type ListenDeps = Pick<ListenerOptions, "databaseUrl" | "onError" | "clock">;

/**
 * Hints by NOTIFY. All workers receive all hints, and each takes its share. While two disagree about the listeners, a
 * hint is taken twice or not at all for some seconds, and the following job compensates.
 */
export function makePostgresHints(deps: ListenDeps & { readonly pool: pg.Pool }): Hints {
  return {
    send: (hint) => notifyHint(deps.pool, writeHint(hint)),
    listen: (onHint) => listenOn(deps, onHint),
  };
}

function listenOn({ databaseUrl, onError, clock }: ListenDeps, onHint: (hint: Hint) => void): Listener {
  let share: ListenerPlace = { place: 0, listeners: 1 };
  return startListener({
    databaseUrl,
    applicationName: HINT_LISTENER,
    async listen(client) {
      await listenForHints(client);
      // Again each time: workers come and go.
      share = await readListenerPlace(client);
    },
    onNotification(payload) {
      const hint = readHint(payload);
      if (hint && (hint.seqs[0] ?? 0) % share.listeners === share.place) onHint(hint);
    },
    onError,
    clock,
  });
}
