/**
 * Counts work that must be finished before the process may end. A class to guard that nothing begins once the
 * draining has.
 */
export class InFlight {
  #running = 0;
  #draining = false;
  readonly #whenDone: (() => void)[] = [];

  get isDraining(): boolean {
    return this.#draining;
  }

  /** False when draining: then nothing may begin, and there is nothing to end. */
  begin(): boolean {
    if (this.#draining) return false;
    this.#running += 1;
    return true;
  }

  end(): void {
    this.#running -= 1;
    if (this.#running === 0) for (const done of this.#whenDone.splice(0)) done();
  }

  /** Lets nothing begin any more; resolves when all that began has ended. */
  drain(): Promise<void> {
    this.#draining = true;
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenDone.push(resolve));
  }
}
