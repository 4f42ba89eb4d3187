// Keys, kept as long as the tab is open and sent to this server alone.

import { computed, signal } from "@preact/signals";
import { stored } from "./stored";

/** What models are asked with. */
export const apiKey = stored(() => sessionStorage, "apiKey", "");

/** What operators' requests are sent with; without one, the other key is. */
export const managementKey = stored(() => sessionStorage, "managementKey", "");

/** Whether any key is entered. */
export const hasKey = computed(() => apiKey.value !== "" || managementKey.value !== "");

/** Whether the dialog for keys is shown. */
export const asksForKeys = signal(false);
