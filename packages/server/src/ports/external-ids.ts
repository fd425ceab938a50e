/**
 * What roles of other accounts ask for before Belfry may assume them for a tenant: an id that Belfry made and
 * nobody can choose, so that no tenant can have the role of another assumed.
 */
export interface ExternalIds {
  /** Undefined: there is no such tenant. */
  externalIdOf(tenantId: string): Promise<string | undefined>
}
