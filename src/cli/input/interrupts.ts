const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Runs a command until Ctrl-C. The first signal aborts the given AbortSignal, so that the command can shut down
 * cleanly; a second one ends the process immediately. Sets the exit code that shells expect after a signal. A stdout
 * that is closed (`| head`) or full also ends the command.
 */
export async function runUntilInterrupted(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const ending = new AbortController();
  const listeners = Object.entries(SIGNALS).map(([name, code]) => {
    const end = () => {
      if (ending.signal.aborted) process.exit(code);
      process.exitCode = code;
      ending.abort();
    };
    process.on(name, end);
    return () => process.off(name, end);
  });
  process.stdout.on("error", () => ending.abort());
  try {
    await run(ending.signal);
  } finally {
    for (const off of listeners) off();
  }
}
