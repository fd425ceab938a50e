/**
 * The streams that are open: how many a key and a process may have, and what ends them. While there are any,
 * their keys are looked at again every two seconds, one look a key, so that a stream outlives a revoked or
 * expired key by seconds (security/credentials.ts bounds how old an answer may be).
 */
import type { streamCloseReasons } from '@belfry/contract'
import { BelfryError, scopeAllows } from '@belfry/contract'
import type { Scope } from '@belfry/contract'
import type { Authenticator } from '../ports/credentials.ts'

type CloseReason = (typeof streamCloseReasons)[number]

const checkMs = 2_000

export interface StreamLimits {
  /** Open at a time, by one process. */
  readonly streamsPerKey: number
  readonly streams: number
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
    asker: { readonly keyId: string; readonly key: string; readonly scope: Scope },
    gone: AbortSignal,
  ): OpenStream
  count(): number
  /** Ends all of them, and those to come. */
  close(): void
}

interface Held {
  readonly keyId: string
  readonly key: string
  readonly scope: Scope
  readonly end: (reason: CloseReason) => void
}

export function createOpenStreams(
  authenticator: Pick<Authenticator, 'authenticate'>,
  limits: StreamLimits,
): OpenStreams {
  const all = new Set<Held>()
  let timer: NodeJS.Timeout | undefined
  let closed = false

  async function check(): Promise<void> {
    for (const [key, held] of Map.groupBy(all, (each) => each.key)) {
      // a database that does not answer ends nothing: nothing new is sent without it either
      const credential = await authenticator.authenticate(key).catch(() => 'unknown' as const)
      if (credential === 'unknown') continue
      for (const each of held)
        if (credential === undefined || !scopeAllows(credential.scopes, each.scope)) each.end('key_refused')
    }
    timer = undefined
    arm()
  }

  function arm(): void {
    if (all.size > 0) timer ??= setTimeout(() => void check(), checkMs).unref()
  }

  function refuseMore(keyId: string): void {
    if (closed) throw new BelfryError('shutting_down', 'This server is shutting down; ask another one.')
    const ofKey = [...all].filter((each) => each.keyId === keyId)
    const many = ofKey.length >= limits.streamsPerKey
    if (!many && all.size < limits.streams) return
    const whose = many ? `${limits.streamsPerKey} streams with this key` : `${limits.streams} streams here`
    throw new BelfryError('too_many_requests', `There are ${whose} open; close one, or try again later.`)
  }

  return {
    open({ keyId, key, scope }, gone) {
      refuseMore(keyId)
      const stopping = new AbortController()
      let reason: CloseReason | undefined
      const end = (why: CloseReason): void => {
        reason ??= why
        stopping.abort()
      }
      const held = { keyId, key, scope, end }
      const life = setTimeout(() => end('time_limit'), limits.streamLifeMs).unref()
      all.add(held)
      arm()
      return {
        signal: AbortSignal.any([gone, stopping.signal]),
        closedBy: () => reason,
        release() {
          clearTimeout(life)
          all.delete(held)
          if (all.size > 0) return
          clearTimeout(timer)
          timer = undefined
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
