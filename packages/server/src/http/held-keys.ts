/**
 * Keys and sessions whose requests go on for long: streams, and calls that wait. While there are any, each
 * key is looked at again every two seconds, one look a key, so that what is open outlives a revoked or
 * expired key, or a disabled owner, by less than five seconds (security/credentials.ts bounds how old an
 * answer may be).
 */
import type { Permission } from '@belfry/contract'
import type { Authenticator } from '../ports/credentials.ts'

const checkMs = 2_000

export interface HeldKey {
  /** The text that proved the caller. */
  readonly key: string
  readonly permission: Permission
  /** Called when the key may not do this any more. */
  readonly refused: () => void
}

export interface HeldKeys {
  /** Answers what must be called when the request is over. */
  hold(held: HeldKey): () => void
}

export function createHeldKeys(authenticator: Pick<Authenticator, 'authenticate'>): HeldKeys {
  const all = new Set<HeldKey>()
  let timer: NodeJS.Timeout | undefined

  async function check(): Promise<void> {
    for (const [key, held] of Map.groupBy(all, (each) => each.key)) {
      // a database that does not answer ends nothing: nothing new is sent without it either
      const credential = await authenticator.authenticate(key).catch(() => 'unknown' as const)
      if (credential === 'unknown') continue
      for (const each of held) if (credential?.permissions.has(each.permission) !== true) each.refused()
    }
    timer = undefined
    arm()
  }

  function arm(): void {
    if (all.size > 0) timer ??= setTimeout(() => void check(), checkMs).unref()
  }

  return {
    hold(held) {
      all.add(held)
      arm()
      return () => {
        all.delete(held)
        if (all.size > 0) return
        clearTimeout(timer)
        timer = undefined
      }
    },
  }
}
