/**
 * The Redis of REDIS_URL as a server here would meet it: does it answer, is it new enough, may it throw
 * away what Belfry keeps there, may this user do what Belfry does. Writes nothing.
 */
import type { Redis } from 'ioredis'
import { createRedisLink } from '../adapters/redis/redis-link.ts'
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import type { Diagnosis } from './diagnosis.ts'
import { wordsOf } from './diagnosis.ts'

const oldest = [6, 2] as const

/** `url` is known to be a Redis URL. Never throws. */
export async function examineRedis(url: string): Promise<Diagnosis[]> {
  const link = createRedisLink({
    url,
    clock: systemClock,
    random: systemRandom,
    events: { emit: () => undefined },
  })
  const target = describeTarget(url)
  try {
    await link.start()
    const sentMs = systemClock.monotonicMs()
    const info = await link.run((redis) => redis.info('server'))
    const took = Math.round(systemClock.monotonicMs() - sentMs)
    return [serverDiagnosis(target, info, took), await link.run((redis) => evictionDiagnosis(redis))]
  } catch (error) {
    const message = `${target} does not let Belfry in: ${wordsOf(error)}. Without it all goes by Postgres.`
    const fix =
      'Check REDIS_URL (host, port, user, password), that the server runs, and the rights of its user.'
    return [{ name: 'redis', status: 'fail', message, fix }]
  } finally {
    await link.close()
  }
}

/** Never with a password. */
function describeTarget(text: string): string {
  const { hostname, port } = new URL(text)
  return `Redis at ${hostname}:${port === '' ? '6379' : port}`
}

function serverDiagnosis(target: string, info: string, took: number): Diagnosis {
  const version = /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown'
  const message = `${target} answers (${version}, ${took} ms).`
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isOld = major < oldest[0] || (major === oldest[0] && minor < oldest[1])
  if (!isOld) return { name: 'redis', status: 'ok', message, fix: null }
  const fix = `Belfry needs Redis ${oldest.join('.')} or newer; upgrade the server.`
  return { name: 'redis', status: 'fail', message, fix }
}

async function evictionDiagnosis(redis: Redis): Promise<Diagnosis> {
  const name = 'redis_eviction'
  const policy = /maxmemory_policy:(\S+)/.exec(await redis.info('memory'))?.[1] ?? 'unknown'
  const message = `When Redis is full it follows the policy ${policy}.`
  if (policy === 'noeviction') return { name, status: 'ok', message, fix: null }
  const fix =
    'Set maxmemory-policy to noeviction; otherwise Redis throws timers away, and they are late for it.'
  return { name, status: 'warn', message, fix }
}
