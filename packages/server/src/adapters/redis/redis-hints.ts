/**
 * Hints between processes over Redis pub/sub. While Redis is away they go the way that they would go without
 * it (`otherwise`), on which this process keeps listening too: others may be cut off from Redis alone.
 */
import { createDebounce } from '../../engine/hint-debounce.ts'
import { hintText, parseHint } from '../../engine/hint-text.ts'
import { createLocalHints } from '../../engine/local-hints.ts'
import { hintsOfSilence } from '../../engine/missed-hints.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Hint, Hints } from '../../ports/hints.ts'
import type { RedisLink } from './redis-link.ts'

type Startable = Hints & { start(): void; close(): Promise<void> }

export function createRedisHints(options: {
  redis: RedisLink
  /** Must deliver what it publishes in this process too, and not bring it back from elsewhere. */
  otherwise: Startable
  clock: Clock
  /** Tells this process's hints from those of others. */
  senderId: string
  /** Begins the names of all that this installation keeps in Redis. */
  prefix: string
}): Startable {
  const { redis, otherwise, clock, senderId } = options
  const channel = `${options.prefix}:hints`
  const local = createLocalHints()

  const debounce = createDebounce(clock, (hint: Hint) => {
    redis
      .run((client) => client.publish(channel, hintText(senderId, hint)))
      // it may have gone out all the same; a hint that comes twice does no harm
      .catch(() => otherwise.publish(hint))
  })

  let unsubscribe = (): void => {}
  return {
    publish(hint) {
      if (!redis.up) return otherwise.publish(hint)
      local.deliver(hint)
      debounce.publish(hint)
    },
    subscribe: (listener) => local.subscribe(listener),
    start() {
      unsubscribe = otherwise.subscribe((hint) => local.deliver(hint))
      otherwise.start()
      const heard = (text: string): void => {
        const hint = parseHint(text, senderId)
        if (hint !== undefined) local.deliver(hint)
      }
      // what was said meanwhile has not come this way
      redis.listen(channel, heard, () => {
        for (const hint of hintsOfSilence) local.deliver(hint)
      })
    },
    async close() {
      unsubscribe()
      debounce.close()
      await otherwise.close()
    },
  }
}
