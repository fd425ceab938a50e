/**
 * The connection to Redis, and whether it is there. Everything that Redis does for Belfry is to be faster,
 * never to be right, so nothing may wait long for it:
 *
 *   up     commands are sent, with a short time limit
 *   away   after a failure of the connection: commands fail at once, until the connection stands again
 *
 * The client reconnects by itself, with jittered pauses. `generation` grows with every connection: what was
 * put there before may be gone, or old.
 */
import type { Redis } from 'ioredis'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Random } from '../../ports/random.ts'

const commandTimeoutMs = 1_000
const connectTimeoutMs = 2_000
const firstReconnectMs = 100
const longestReconnectMs = 5_000
/** The connection for commands, among those that listen. */
const commands = ''
/** The client's words. */
const timedOut = 'Command timed out'

export interface RedisLink {
  /** False: commands are not tried. */
  readonly up: boolean
  /** Grows with every connection; 0 before the first. */
  readonly generation: number
  /** What an operator wants to know. */
  stats(): RedisStats
  /** Sends a command; throws `RedisAway` where Redis does not answer it in time, or as it should. */
  run<Answer>(command: (redis: Redis) => Promise<Answer>): Promise<Answer>
  /**
   * Before the start: a connection of its own that only listens; it subscribes again by itself. `missed` is
   * called when something may have gone by: it begins to listen, or no longer hears.
   */
  listen(channel: string, heard: (message: string) => void, missed?: () => void): void
  /** Tells that things at `at` were thrown away because no process of Belfry writes such. */
  mended(at: string, count: number): void
  /** Tells how many shards this process leads now although Redis gives them to somebody else. */
  overruled(shards: number): void
  /** Resolves when the first connection stands or was given up for now; never rejects. */
  start(): Promise<void>
  close(): Promise<void>
}

export interface RedisStats {
  readonly up: boolean
  /** Local wall clock, epoch ms. */
  readonly sinceMs: number
  /** Why it is away; null where it is up. */
  readonly fault: string | null
  /** Things that were thrown away because no process of Belfry writes such. */
  readonly mended: number
  /** Shards that this process leads although Redis gives them to somebody else. */
  readonly overruled: number
}

/** Redis did not do what it was asked to. Whoever gets this goes on without it. */
export class RedisAway extends Error {
  override readonly name = 'RedisAway'
}

export interface RedisLinkOptions {
  /** `redis://` or `rediss://`, with user and password where the server wants them. */
  readonly url: string
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

interface Channel {
  readonly name: string
  readonly heard: (message: string) => void
  readonly missed: () => void
}

export function createRedisLink(options: RedisLinkOptions): RedisLink {
  const state = createLinkState(options)
  const clients: Redis[] = []
  const channels: Channel[] = []
  let client: Redis | undefined
  const doubts = { mended: 0, overruled: 0 }

  return {
    get up() {
      return state.up
    },
    get generation() {
      return state.generation
    },
    stats: () => ({ up: state.up, sinceMs: state.sinceMs, fault: state.up ? null : state.fault, ...doubts }),
    async run(command) {
      if (!state.up || client === undefined) throw new RedisAway(state.fault)
      try {
        return await command(client)
      } catch (error) {
        const fault = error instanceof Error ? error.message : String(error)
        if (fault === timedOut) {
          // frozen, or cut off without a word: nothing tells but that it is silent
          state.disconnected(`it does not answer within ${commandTimeoutMs} ms`)
          client.disconnect(true)
        }
        throw new RedisAway(fault, { cause: error })
      }
    },
    listen: (name, heard, missed = () => undefined) => void channels.push({ name, heard, missed }),
    mended(at, count) {
      doubts.mended += count
      options.events.emit('redis_mended', { at, count })
    },
    overruled(shards) {
      if (shards !== doubts.overruled) options.events.emit('redis_overruled', { shards })
      doubts.overruled = shards
    },
    async start() {
      // loaded only where it is used
      const { Redis } = await import('ioredis')
      const settings = settingsOf(options)
      client = new Redis(options.url, { ...settings, commandTimeout: commandTimeoutMs })
      clients.push(client)
      client.on('ready', () => state.connected())
      client.on('error', (error: Error) => state.disconnected(error.message))
      client.on('close', () => state.disconnected())
      for (const channel of channels) {
        // what listens is silent for as long as nothing is said: no time limit
        const listener = new Redis(options.url, settings)
        clients.push(listener)
        listenOn(listener, channel, state)
      }
      await client.connect().catch(() => undefined)
      state.started()
    },
    async close() {
      for (const each of clients) {
        each.removeAllListeners()
        each.on('error', () => undefined)
        each.disconnect()
      }
      state.closed()
    },
  }
}

/** Of every connection. */
const settingsOf = ({ random }: RedisLinkOptions) => ({
  lazyConnect: true,
  connectTimeout: connectTimeoutMs,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: (times: number) => pauseMs(times, random),
})

/** Whether Redis is there; a change of it is told. */
function createLinkState({ clock, events }: RedisLinkOptions) {
  const state = { generation: 0, up: false, sinceMs: clock.nowMs(), fault: 'it was not reached yet' }
  /** Which connections do not stand. */
  const missing = new Set<string>([commands])

  function turn(up: boolean): void {
    if (state.up === up) return
    state.up = up
    state.sinceMs = clock.nowMs()
    tell()
  }

  function tell(): void {
    const { up, fault } = state
    events.emit('part_changed', { part: 'redis', state: up ? 'up' : 'away', fault: up ? null : fault })
  }
  return {
    get up() {
      return state.up
    },
    get generation() {
      return state.generation
    },
    get sinceMs() {
      return state.sinceMs
    },
    get fault() {
      return state.fault
    },
    connected() {
      state.generation++
      missing.delete(commands)
      turn(missing.size === 0)
    },
    /** Without a fault that is known: why it is away stays what it was. */
    disconnected(fault = state.up ? 'the connection was closed' : state.fault) {
      state.fault = fault
      missing.add(commands)
      turn(false)
    },
    hears(channel: string) {
      missing.delete(channel)
      turn(missing.size === 0)
    },
    deaf(channel: string, fault: string) {
      state.fault = fault
      missing.add(channel)
      turn(false)
    },
    /** Tells at the start, too, that it is away. */
    started() {
      if (!state.up) tell()
    },
    closed() {
      state.up = false
    },
  }
}

/** Without the ears of this process the link counts as away: others would speak to nobody. */
function listenOn(listener: Redis, { name, heard, missed }: Channel, state: LinkState): void {
  const deaf = (fault: string): void => state.deaf(name, fault)
  deaf('it is not listened to yet')
  listener.on('message', (_, message: string) => heard(message))
  listener.on('error', (error: Error) => deaf(error.message))
  let hears = false
  const turn = (now: boolean): void => {
    if (now || hears) missed()
    hears = now
  }
  listener.on('close', () => {
    deaf('the connection that listens was closed')
    turn(false)
  })
  listener.on('ready', () => {
    listener.subscribe(name).then(
      () => {
        state.hears(name)
        turn(true)
      },
      (error: unknown) => deaf(`it cannot be listened to: ${String(error)}`),
    )
  })
  void listener.connect().catch(() => undefined)
}

type LinkState = ReturnType<typeof createLinkState>

function pauseMs(times: number, random: Random): number {
  const ceilingMs = Math.min(longestReconnectMs, firstReconnectMs * 2 ** Math.min(times - 1, 10))
  return ceilingMs * (0.5 + random.next() / 2)
}
