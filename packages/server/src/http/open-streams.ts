/**
 * The streams that are open: how many a key, a tenant and a process may have, and what ends them. One
 * outlives a key that is refused by seconds (held-keys.ts).
 */
import type { streamCloseReasons } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { Permission } from '@belfry/contract'
import type { HeldKeys } from './held-keys.ts'

type CloseReason = (typeof streamCloseReasons)[number]

export interface StreamLimits {
  /** Open at a time, by one process. */
  readonly streamsPerKey: number
  readonly streams: number
  /** The same of a tenant; null: no limit. */
  readonly streamsOfTenant: (tenantId: string) => number | null
  /** Silence is broken after so long. */
  readonly streamHeartbeatMs: number
  /** How long one stream goes on; the reader asks again then. */
  readonly streamLifeMs: number
}

export interface OpenStream {
  /** Fires when the reader has gone, and when the stream is to end. */
  readonly signal: AbortSignal
  /** Why the server ends it; undefined: it does not. */
  closedBy(): CloseReason | undefined
  /** Must be called when it has ended. */
  release(): void
}

export interface OpenStreams {
  /** Throws `too_many_requests`, or `shutting_down`. */
  open(
    asker: {
      readonly keyId: string
      readonly tenantId: string
      readonly key: string
      readonly permission: Permission
    },
    gone: AbortSignal,
  ): OpenStream
  count(): number
  /** Ends all of them, and those to come. */
  close(): void
}

interface Held {
  readonly keyId: string
  readonly tenantId: string
  readonly end: (reason: CloseReason) => void
}

export function createOpenStreams(heldKeys: HeldKeys, limits: StreamLimits): OpenStreams {
  const all = new Set<Held>()
  let closed = false

  function refuseMore(keyId: string, tenantId: string): void {
    if (closed) throw new BelfryError('shutting_down', 'This server is shutting down; ask another one.')
    const ofKey = [...all].filter((each) => each.keyId === keyId)
    const most = limits.streamsOfTenant(tenantId)
    if (most !== null && [...all].filter((each) => each.tenantId === tenantId).length >= most) {
      const words =
        `The quota "streams" of this tenant is used up: ${most} are open. ` + 'Close one, or try again later.'
      throw new BelfryError('quota_exceeded', words, { quota: 'streams', retryAfterSeconds: 5 })
    }
    const many = ofKey.length >= limits.streamsPerKey
    if (!many && all.size < limits.streams) return
    const whose = many ? `${limits.streamsPerKey} streams with this key` : `${limits.streams} streams here`
    throw new BelfryError('too_many_requests', `There are ${whose} open; close one, or try again later.`)
  }

  return {
    open({ keyId, tenantId, key, permission }, gone) {
      refuseMore(keyId, tenantId)
      const stopping = new AbortController()
      let reason: CloseReason | undefined
      const end = (why: CloseReason): void => {
        reason ??= why
        stopping.abort()
      }
      const held = { keyId, tenantId, end }
      const letGo = heldKeys.hold({ key, permission, refused: () => end('key_refused') })
      const life = setTimeout(() => end('time_limit'), limits.streamLifeMs).unref()
      all.add(held)
      return {
        signal: AbortSignal.any([gone, stopping.signal]),
        closedBy: () => reason,
        release() {
          clearTimeout(life)
          letGo()
          all.delete(held)
        },
      }
    },
    count: () => all.size,
    close() {
      closed = true
      for (const each of all) each.end('shutting_down')
    },
  }
}
