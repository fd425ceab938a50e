/**
 * A list of the API, page by page, as something to iterate over: `for await (const job of
 * client.jobs.list())`. Nothing is asked for before the first item is; breaking off the loop asks for
 * nothing more. A page may have fewer items than asked for, also none, and still a next one.
 */

export type Page<T> = { readonly items: readonly T[]; readonly nextCursor: string | null }

export type Listing<T> = AsyncIterable<T> & {
  /** Asks for one page; from the start if no cursor is given. */
  page(cursor?: string): Promise<Page<T>>
  /** Page after page. */
  pages(): AsyncIterable<Page<T>>
  /** At most `max` items, in an array. */
  take(max: number): Promise<T[]>
}

/** Builds a listing over a function that asks for one page. */
export function listing<T>(
  askForPage: (cursor: string | undefined) => Promise<Page<T>>,
  start?: string,
): Listing<T> {
  async function* pages(): AsyncGenerator<Page<T>> {
    let cursor: string | undefined = start
    do {
      const page = await askForPage(cursor)
      yield page
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
  }
  async function* items(): AsyncGenerator<T> {
    for await (const page of pages()) yield* page.items
  }
  async function take(max: number): Promise<T[]> {
    const taken: T[] = []
    if (max <= 0) return taken
    for await (const item of items()) {
      taken.push(item)
      if (taken.length >= max) break
    }
    return taken
  }
  return { page: (cursor = start) => askForPage(cursor), pages, take, [Symbol.asyncIterator]: items }
}
