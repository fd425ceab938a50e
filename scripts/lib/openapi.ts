// The OpenAPI document as text, from the routes as the server registers them. No database is needed: nothing
// is called, and whatever would be throws.
import { createApi } from '../../packages/server/src/http/api.ts'

const notCalled = (): never => {
  throw new Error('The document is made without calling anything.')
}

/** Pretty JSON with a newline at the end. */
export async function renderOpenApi(version: string): Promise<string> {
  const api = await createApi({
    version,
    catalog: { within: notCalled, withinPlatform: notCalled },
    authenticator: { authenticate: notCalled, provedLately: notCalled, forget: notCalled },
    audit: { note: notCalled },
    knownKeys: { byPrefix: notCalled },
    mint: { mint: notCalled },
    vault: {
      currentId: undefined,
      newKey: notCalled,
      rewrap: notCalled,
      warm: notCalled,
      seal: notCalled,
      open: notCalled,
      unknown: notCalled,
    },
    invites: { mint: notCalled, read: notCalled },
    zones: { dataVersion: '', source: 'bundled', path: null, get: notCalled, names: notCalled },
    ids: { uuidv7: notCalled },
    tags: { next: notCalled, ready: notCalled },
    hints: { publish: notCalled },
    events: { emit: notCalled },
    callbacks: { report: notCalled },
    gate: {
      open: notCalled,
      claim: notCalled,
      heartbeat: notCalled,
      complete: notCalled,
      release: notCalled,
      log: notCalled,
      close: notCalled,
      waiting: notCalled,
      drain: () => undefined,
    },
    watcher: {
      next: notCalled,
      standing: notCalled,
      waiting: notCalled,
      close: () => undefined,
    },
    egress: { checkTargetUrl: notCalled, checkTargetHeaders: notCalled },
  })
  try {
    return `${JSON.stringify(api.app.swagger(), null, 2)}\n`
  } finally {
    await api.close()
  }
}
