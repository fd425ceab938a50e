/**
 * Tags need to know how far the service of a queue has come, and now and then that has to be read first
 * (engine/fair-tags.ts). The read takes a connection of its own, so a transaction must not wait for it long:
 * behind a pooler, transactions that all wait would hold the very connections that it needs. It waits a
 * moment; then it gives way: it is rolled back, the read is awaited with no connection held, and the request
 * is decided anew.
 */
import type { Tools } from './endpoint.ts'

type Tags = Tools['tags']

const patienceMs = 100
const mostTries = 3

/** Thrown out of the transaction, and caught here. */
class LanesWanted extends Error {
  readonly lanes: readonly string[]

  constructor(lanes: readonly string[]) {
    super('The transaction gave way to what it waited for.')
    this.lanes = lanes
  }
}

/** `work` runs one transaction, with the tags that it is given, and may be called again after it threw. */
export async function withKnownLanes<Result>(
  tags: Tags,
  work: (tags: Tags) => Promise<Result>,
): Promise<Result> {
  const impatient: Tags = {
    next: (request) => tags.next(request),
    async ready(wanted) {
      const lanes = [...wanted]
      if (!(await settlesSoon(tags.ready(lanes)))) throw new LanesWanted(lanes)
    },
  }
  for (let tries = 1; tries < mostTries; tries++) {
    try {
      return await work(impatient)
    } catch (error) {
      if (!(error instanceof LanesWanted)) throw error
      await tags.ready(error.lanes)
    }
  }
  return work(tags)
}

/** Whether it was fulfilled within the patience. Rejects as it does. */
async function settlesSoon(promise: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), patienceMs)
  })
  const soon = await Promise.race([promise.then(() => true), late]).finally(() => clearTimeout(timer))
  // whoever asks for it again hears how it ended
  if (!soon) promise.catch(() => undefined)
  return soon
}
