const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Runs a command that goes on until Ctrl-C: the first signal aborts the given one, so that it can end in order; a
 * second ends the process at once. Sets the exit code that shells expect of a signal. A reader of stdout that has
 * gone (`| head`) ends it too, with exit code 0.
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
  const leave = (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    ending.abort();
  };
  process.stdout.on("error", leave);
  try {
    await run(ending.signal);
  } finally {
    for (const off of listeners) off();
  }
}
