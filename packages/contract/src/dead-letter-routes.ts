/**
 * The routes of dead letters: a part of the table in routes.ts. Their ids are those of their runs; what acts
 * on many takes a filter, and as a dry run answers the preview.
 */
import { z } from 'zod'
import { dryRunQuery, idSchema } from './common.ts'
import * as letters from './dead-letters.ts'
import type { Route } from './route.ts'

const id = z.strictObject({ id: idSchema })

export const deadLetterRoutes = {
  deadLetterList: {
    method: 'GET',
    path: '/v1/dead-letters',
    permission: 'run.read',
    tag: 'dead letters',
    summary: 'List runs that failed and were not dealt with, the latest failure first',
    query: letters.deadLetterListQuery,
    response: letters.deadLetterPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  deadLetterGroups: {
    method: 'GET',
    path: '/v1/dead-letters/groups',
    permission: 'run.read',
    tag: 'dead letters',
    summary: 'Count dead letters by error',
    query: letters.deadLetterGroupQuery,
    response: letters.deadLetterGroupsSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  deadLetterReplayMany: {
    method: 'POST',
    path: '/v1/dead-letters/replay',
    permission: 'run.operate',
    tag: 'dead letters',
    summary: 'Replay dead letters by filter, a bounded number a call; a dry run is the preview',
    query: dryRunQuery,
    body: letters.deadLetterReplayManySchema,
    response: letters.deadLettersReplayedSchema,
    status: 200,
    effect: 'change',
    errors: ['invalid_cursor', 'precondition_failed'],
  },
  deadLetterDeleteMany: {
    method: 'POST',
    path: '/v1/dead-letters/delete',
    permission: 'run.operate',
    tag: 'dead letters',
    summary: 'Delete (acknowledge) dead letters by filter, a bounded number a call; a dry run is the preview',
    query: dryRunQuery,
    body: letters.deadLetterDeleteManySchema,
    response: letters.deadLettersDeletedSchema,
    status: 200,
    effect: 'change',
    errors: ['invalid_cursor', 'precondition_failed'],
  },
  deadLetterGet: {
    method: 'GET',
    path: '/v1/dead-letters/:id',
    permission: 'run.read',
    tag: 'dead letters',
    summary: 'Get a dead letter with its run',
    params: id,
    response: letters.deadLetterDetailSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  deadLetterReplay: {
    method: 'POST',
    path: '/v1/dead-letters/:id/replay',
    permission: 'run.operate',
    tag: 'dead letters',
    summary: 'Replay a dead letter as a new run; again, it answers the same run',
    params: id,
    query: dryRunQuery,
    body: letters.deadLetterReplaySchema,
    response: letters.deadLetterReplayedSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state'],
  },
  deadLetterDelete: {
    method: 'DELETE',
    path: '/v1/dead-letters/:id',
    permission: 'run.operate',
    tag: 'dead letters',
    summary: 'Delete (acknowledge) a dead letter; the run stays in the history',
    params: id,
    query: dryRunQuery,
    response: letters.deadLetterSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>
