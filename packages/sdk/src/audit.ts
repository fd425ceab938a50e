/**
 * The audit log in the client: who did what, as a list, and as the chain that anybody may verify
 * (`belfry audit verify`).
 */
import type { AuditRecord } from '@belfry/contract'
import type { shapes } from './client-verbs.ts'
import type { Listing } from './listing.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, CallOptions, ItemOf, QueryOf } from './route-types.ts'

const pageSize = 1000

export interface Audit {
  /** Newest first. */
  list(query?: QueryOf<'auditList'>, options?: CallOptions): Listing<ItemOf<'auditList'>>
  status(options?: CallOptions): Promise<AnswerOf<'auditStatus'>>
  /** The whole chain, oldest first, with what attests it; a page at a time. */
  export(options?: CallOptions): AsyncGenerator<AuditRecord, void>
}

export function auditOf(
  { request }: Pick<Requester, 'request'>,
  { list }: Pick<ReturnType<typeof shapes>, 'list'>,
): Audit {
  return {
    list: (query, options = {}) => list('auditList', query, options),
    status: (options = {}) => request('auditStatus', options),
    async *export(options = {}) {
      let cursor: string | undefined
      do {
        const query = { limit: pageSize, ...(cursor === undefined ? {} : { cursor }) }
        const page = await request('auditExport', { ...options, query })
        yield* page.cuts
        yield* page.items
        yield* page.checkpoints
        cursor = page.nextCursor ?? undefined
      } while (cursor !== undefined)
    },
  }
}
