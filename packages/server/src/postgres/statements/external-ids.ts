/**
 * What roles in accounts of AWS ask for before Belfry may assume them: made with the tenant, and never
 * changed (migrations/0041_callbacks.sql).
 */
import { statement } from '../statement.ts'

/** That of a tenant, for the engine. */
export const findExternalIdOf = statement<{ readonly external_id: string }, [tenantId: string]>(
  'external_id_find_of',
  'SELECT aws_external_id AS external_id FROM belfry.tenant WHERE id = $1',
)

/** That of the tenant who asks. */
export const findExternalId = statement<{ readonly external_id: string }>(
  'external_id_find',
  'SELECT aws_external_id AS external_id FROM belfry.tenant WHERE id = belfry.tenant_id()',
)
