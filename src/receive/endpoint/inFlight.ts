/**
 * Counts work that must finish before the process may end. A class, to ensure that nothing starts after draining has
 * begun.
 */
export class InFlight {
  #running = 0;
  #draining = false;
  readonly #whenDone: (() => void)[] = [];

  get isDraining(): boolean {
    return this.#draining;
  }

  /** False while draining: then nothing may start, and `end` must not be called. */
  begin(): boolean {
    if (this.#draining) return false;
    this.#running += 1;
    return true;
  }

  end(): void {
    this.#running -= 1;
    if (this.#running === 0) for (const done of this.#whenDone.splice(0)) done();
  }

  /** Lets nothing start any more; resolves when everything that started has ended. */
  drain(): Promise<void> {
    this.#draining = true;
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenDone.push(resolve));
  }
}
