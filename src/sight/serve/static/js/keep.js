// What stays on this device between two visits: a wearer's state by model, and a model somebody chose. IndexedDB.

const NAME = "sight",
  TABLE = "kept";

function ask(mode, act) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const db = opening.result,
        deal = db.transaction(TABLE, mode);
      const request = act(deal.objectStore(TABLE));
      deal.oncomplete = () => (db.close(), resolve(request.result));
      deal.onabort = deal.onerror = () => (db.close(), reject(deal.error));
    };
  });
}

export const recall = (key) => ask("readonly", (table) => table.get(key));
export const remember = (key, value) => ask("readwrite", (table) => table.put(value, key));
export const forgetOne = (key) => ask("readwrite", (table) => table.delete(key));
export const forgetAll = () => ask("readwrite", (table) => table.clear());
