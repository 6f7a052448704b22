// The latest of several requests: a newer one aborts the older ones, whose answers are dropped.

/**
 * Returns `ask(method, params)`, which resolves to the answer, or to null if a newer request replaced this one. It rejects
 * only with the failure of the newest request. `ask.stop()` aborts.
 */
export function create() {
  /** @type {AbortController | null} */
  let running = null;
  /** @template Params, Answer @param {Ask<Params, Answer>} method @param {Params} params */
  async function ask(method, params) {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    try {
      const answer = await method(params, {signal: mine.signal});
      return running === mine ? answer : null;
    } catch (error) {
      if (running !== mine || mine.signal.aborted) return null;
      throw error;
    }
  }
  ask.stop = () => running?.abort();
  return ask;
}
