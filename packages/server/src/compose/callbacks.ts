/**
 * Runs that their target took over, in one process: what handlers, the engine and the API need of them, and
 * the address at which targets report.
 */
import type { Config } from '../config/schema.ts'
import { createCallbackDoor } from '../engine/callbacks/callback-door.ts'
import type { CallbackDoor, CallbackStore } from '../ports/callbacks.ts'
import { createPostgresCallbackStore } from '../postgres/callback-store.ts'
import type { Database } from '../postgres/database.ts'
import { callbackTokens } from '../security/callback-token.ts'

export interface Callbacks {
  readonly store: CallbackStore
  readonly door: CallbackDoor
  /** The API of this process listens here. */
  listensAt(url: string): void
}

export function openCallbacks({ publicUrl }: Config, db: Database): Callbacks {
  const store = createPostgresCallbackStore(db)
  let ownUrl: string | undefined
  return {
    store,
    door: createCallbackDoor({
      callbacks: store,
      tokens: callbackTokens,
      baseUrl: () => publicUrl ?? ownUrl,
    }),
    listensAt(url) {
      // an address that is reached from elsewhere too cannot be told from here: it has to be said
      if (isLocal(new URL(url).hostname)) ownUrl = url
    },
  }
}

const isLocal = (host: string): boolean => /^127\.|^\[::1\]$|^localhost$/.test(host)
