/**
 * A handler that puts on record what the rules refused it
 * at run time: the target of a call, a secret.
 */
import type { AuditDetails, AuditNotes } from '../ports/audit.ts'
import type { Handler, HandlerRequest } from '../ports/handler.ts'

const denials: Readonly<Record<string, `${string}.${string}`>> = {
  target_denied: 'target.call',
  secret_denied: 'secret.use',
}

export function notingDenials(handler: Handler, notes: AuditNotes): Handler {
  return {
    ...handler,
    async execute(request) {
      const result = await handler.execute(request)
      const action = result.outcome === 'failed' ? denials[result.error.code] : undefined
      if (result.outcome === 'failed' && action !== undefined) {
        notes.note({
          tenantId: request.tenantId,
          action,
          subject: { kind: 'job', id: request.jobId, name: null },
          outcome: 'refused',
          code: result.error.code,
          by: 'worker',
          details: { runId: request.runId, ...targetOf(request) },
        })
      }
      return result
    },
    close: () => handler.close(),
  }
}

/** The host, and nothing of the address that may hold a secret. */
function targetOf({ handler }: HandlerRequest): AuditDetails {
  if (handler.kind !== 'http') return {}
  return URL.canParse(handler.url) ? { target: new URL(handler.url).host } : {}
}
