/**
 * A Lua script of Redis: sent by its digest, and whole where the server does not know it, which is so after
 * each of its starts.
 */
import { createHash } from 'node:crypto'
import type { RedisLink } from './redis-link.ts'

export type Script = (keys: readonly string[], values: readonly (string | number)[]) => Promise<unknown>

export function createScript(redis: RedisLink, text: string): Script {
  const digest = createHash('sha1').update(text).digest('hex')
  return (keys, values) =>
    redis.run(async (client) => {
      try {
        return await client.evalsha(digest, keys.length, ...keys, ...values)
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
        return client.eval(text, keys.length, ...keys, ...values)
      }
    })
}
