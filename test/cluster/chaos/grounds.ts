// What has to be prepared for a fault before the processes start: a small disk, another host, a clock that is
// wrong, a standby, an address that can move. Two of the processes may be special, `specialNodes`.
import { existsSync } from 'node:fs'
import type { Standby } from '../support/standby.ts'
import { startStandby } from '../support/standby.ts'
import type { Arena, Defer } from '../support/arena.ts'
import { type Lanes, layLanes } from '../support/lanes.ts'
import { type MovablePort, startMovablePort } from '../support/movable-port.ts'
import { mountSmallDisk, type SmallDisk } from '../support/small-disk.ts'
import { startRedisServer, type RedisServer } from '../../support/redis-server.ts'
import { serviceNamed } from '../../support/services.ts'
import type { Stores } from './configurations.ts'

export const groundKinds = [
  'plain',
  'small disk',
  'other host',
  'clock ahead',
  'clock behind',
  'standby',
  'spare redis',
] as const
export type GroundKind = (typeof groundKinds)[number]

/** One of each role that holds something: a scheduler and a worker. */
export const specialNodes: ReadonlySet<string> = new Set(['scheduler-1', 'worker-1'])

export const laneNames = ['postgres', 'redis', 'kafka', 'sqs', 'target'] as const
export type LaneName = (typeof laneNames)[number]

export interface Ground {
  readonly disk?: SmallDisk
  readonly lanes?: Lanes<LaneName>
  readonly standby?: Standby
  /** Empty; `takeOver` makes it the one that everybody is sent to. */
  readonly spareRedis?: { readonly server: RedisServer; readonly takeOver: () => void }
  /** Of every node. */
  readonly env: Readonly<Record<string, string>>
  /** Of special nodes, over that. */
  readonly specialEnv: Readonly<Record<string, string>>
  readonly specialUnder: readonly string[]
  /** Where all nodes reach the target. */
  readonly targetUrl?: string
}

const megabytes = 256
const oneHour = 3_600

/** What can be laid before there are stores. Throws with the reason where it cannot be laid here. */
export function breakGround(kind: GroundKind, defer: Defer): Pick<Ground, 'disk' | 'lanes'> {
  if (kind === 'small disk') {
    const disk = mountSmallDisk(megabytes)
    if (typeof disk === 'string') throw new Error(disk)
    defer(disk.unmount)
    return { disk }
  }
  if (kind === 'other host') {
    const lanes = layLanes(laneNames)
    if (typeof lanes === 'string') throw new Error(lanes)
    defer(lanes.remove)
    return { lanes }
  }
  return {}
}

/** The rest, around the stores. */
export async function layGround(
  kind: GroundKind,
  begun: Pick<Ground, 'disk' | 'lanes'>,
  arena: Arena,
  stores: Stores,
  defer: Defer,
): Promise<Ground> {
  const plain: Ground = { ...begun, env: {}, specialEnv: {}, specialUnder: [] }
  if (kind === 'standby') {
    const standby = await startStandby({ defer }, arena, 'sync')
    return { ...plain, standby, env: { DATABASE_URL: standby.bothUrl } }
  }
  if (kind === 'clock ahead') return { ...plain, specialEnv: wrongClock(oneHour) }
  if (kind === 'clock behind') return { ...plain, specialEnv: wrongClock(-oneHour) }
  if (kind === 'spare redis') return { ...plain, ...(await spareRedis(stores, defer)) }
  if (kind === 'other host' && begun.lanes !== undefined)
    return { ...plain, ...(await otherHost(begun.lanes, arena, stores, defer)) }
  return plain
}

/** By libfaketime: the wall clock is off, the monotonic one is not. */
function wrongClock(seconds: number): Record<string, string> {
  const library = serviceNamed('faketime').find()
  if (library === undefined || !existsSync(library)) throw new Error('libfaketime is missing')
  const offset = seconds < 0 ? String(seconds) : `+${seconds}`
  return { LD_PRELOAD: library, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: '1' }
}

async function spareRedis(stores: Stores, defer: Defer): Promise<Pick<Ground, 'spareRedis' | 'env'>> {
  const place = serviceNamed('redis').find()
  if (stores.redis === undefined || place === undefined) throw new Error('there is no Redis to stand in for')
  const server = await startRedisServer(place)
  defer(() => server.kill())
  const door = await startMovablePort({ host: '127.0.0.1', port: stores.redis.port })
  defer(door.close)
  const takeOver = (): void => door.moveTo({ host: '127.0.0.1', port: server.port })
  return { spareRedis: { server, takeOver }, env: { REDIS_URL: `redis://127.0.0.1:${door.port}` } }
}

/** Special nodes run there, and reach each store over its lane. */
async function otherHost(
  lanes: Lanes<LaneName>,
  arena: Arena,
  stores: Stores,
  defer: Defer,
): Promise<Pick<Ground, 'env' | 'specialEnv' | 'specialUnder' | 'targetUrl'>> {
  const { addresses } = lanes
  const over = async (lane: LaneName, url: string): Promise<string> => {
    const port = Number(new URL(url).port)
    const door: MovablePort = await startMovablePort({ host: '127.0.0.1', port }, addresses[lane])
    defer(door.close)
    return url.replace(`127.0.0.1:${port}`, `${addresses[lane]}:${door.port}`)
  }
  const { redis, sqs } = stores
  const queueUrl = sqs === undefined ? undefined : await over('sqs', sqs.urlOf('belfry'))
  return {
    env: { BELFRY_EGRESS_ALLOW: '127.0.0.0/8,10.0.0.0/8' },
    specialUnder: lanes.under,
    specialEnv: {
      DATABASE_URL: await over('postgres', arena.databaseUrl),
      ...(redis === undefined ? {} : { REDIS_URL: await over('redis', redis.url) }),
      ...(queueUrl === undefined ? {} : { SQS_QUEUE_URL: queueUrl }),
    },
    targetUrl: await over('target', arena.ledger.url),
  }
}
